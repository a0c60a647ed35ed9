<?php
// SPDX-License-Identifier: Apache-2.0
// client.php BINDINGS SERVICE, see ../official.py.
use Thrift\Protocol\TBinaryProtocol;
use Thrift\Protocol\TBinaryProtocolAccelerated;
use Thrift\Protocol\TCompactProtocol;
use Thrift\Transport\TBufferedTransport;
use Thrift\Transport\TFramedTransport;
use Thrift\Transport\TSocket;

const TIMEOUT_MS = 60000;

[, $bindings, $service] = $argv;

// Debian has the classes of Thrift\ in /usr/lib/php itself
spl_autoload_register(function ($class) use ($bindings) {
    $path = str_starts_with($class, 'Thrift\\')
        ? '/usr/lib/php/' . strtr(substr($class, strlen('Thrift\\')), '\\', '/')
        : "$bindings/$class";
    require "$path.php";
});

// The generated code sends the sequence ID 0 and looks at none: this makes one for each call, and
// holds the reply against it. The extension writes and reads messages by itself.
trait Checked
{
    private $awaited;

    public function writeMessageBegin($name, $type, $seqid)
    {
        $this->awaited = [$name, random_int(1, 0x7fffffff)];
        return parent::writeMessageBegin($name, $type, $this->awaited[1]);
    }

    public function readMessageBegin(&$name, &$type, &$seqid)
    {
        $read = parent::readMessageBegin($name, $type, $seqid);
        if ([$name, $seqid] !== $this->awaited) {
            fwrite(STDERR, "a reply to $name $seqid, not to {$this->awaited[0]} {$this->awaited[1]}\n");
            exit(1);
        }
        return $read;
    }
}

function new_protocol($name, $transport)
{
    return match ($name) {
        'strict' => new class($transport, true, true) extends TBinaryProtocol { use Checked; },
        'unversioned' => new class($transport, false, false) extends TBinaryProtocol { use Checked; },
        'compact' => new class($transport) extends TCompactProtocol { use Checked; },
        'strict-accelerated' => new TBinaryProtocolAccelerated($transport, true, true),
    };
}

function new_socket($host, $port)
{
    $socket = new TSocket($host, (int)$port);
    $socket->setSendTimeout(TIMEOUT_MS);
    $socket->setRecvTimeout(TIMEOUT_MS);
    if (str_starts_with($host, 'unix:')) {
        $socket->setHandle(stream_socket_client('unix://' . substr($host, strlen('unix:'))));
    } else {
        $socket->open();
    }
    return $socket;
}

function show($value)
{
    if (is_int($value)) {
        echo "$value\n";
    } elseif (is_string($value)) {
        echo bin2hex($value), "\n";
    } elseif (is_object($value)) {
        $fields = array_filter(get_object_vars($value), fn ($each) => $each !== null);
        echo implode(' ', array_map(fn ($name) => "$name={$fields[$name]}", array_keys($fields))), "\n";
    } elseif (array_is_list($value)) {
        array_map('show', $value);
    } else {
        foreach ($value as $key => $each) {
            echo "$key $each\n";
        }
    }
}

function call($client, $method, $agent = null, $count = null)
{
    if ($method === 'get_id') {
        for ($left = (int)$count; $left > 0; $left--) {
            show($client->get_id($agent));
        }
    } else {
        show($agent === null ? $client->$method() : $client->$method($agent, (int)$count));
    }
}

$socket = $client = null;
while (($line = fgets(STDIN)) !== false) {
    $words = explode(' ', trim($line));
    try {
        if ($words[0] === 'open') {
            if ($socket?->isOpen()) {
                $socket->close(); // which throws when it is closed already
            }
            $socket = new_socket($words[1], $words[2]);
            $transport = $words[3] === 'framed' ? new TFramedTransport($socket) : new TBufferedTransport($socket);
            $class = "{$service}Client";
            $client = new $class(new_protocol($words[4], $transport));
        } else {
            call($client, ...$words);
        }
        echo ".\n";
    } catch (Exception $error) {
        echo 'error ', (new ReflectionClass($error))->getShortName(), ": {$error->getMessage()}\n";
    }
}
