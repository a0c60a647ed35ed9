# SPDX-License-Identifier: Apache-2.0
# client.pl BINDINGS SERVICE, see ../official.py.
use strict;
use warnings;

use Thrift::BinaryProtocol;
use Thrift::BufferedTransport;
use Thrift::FramedTransport;
use Thrift::Socket;
use Thrift::UnixSocket;

use constant TIMEOUT_MS => 60000;

# The generated code sends the sequence ID 0 and looks at none: this makes one for each call, and
# holds the reply against it.
package Checked;
use base 'Thrift::BinaryProtocol';

sub writeMessageBegin {
    my ($self, $name, $type, undef) = @_;

    $self->{awaited} = $name . ' ' . (1 + int rand 0x7fffffff);
    return $self->SUPER::writeMessageBegin($name, $type, (split / /, $self->{awaited})[1]);
}

sub readMessageBegin {
    my ($self, $name, $type, $seqid) = @_;
    my $read = $self->SUPER::readMessageBegin($name, $type, $seqid);

    if ("$$name $$seqid" ne $self->{awaited}) {
        warn "a reply to $$name $$seqid, not to $self->{awaited}\n";
        exit 1;
    }
    return $read;
}

package main;

my ($bindings, $service) = @ARGV;
unshift @INC, $bindings;
require(($service =~ s{::}{/}gr) . ".pm");

sub connect_to {
    my ($host, $port, $framing) = @_;
    my $socket = $host =~ /^unix:(.*)/ ? Thrift::UnixSocket->new($1)
                                       : Thrift::Socket->new($host, $port);
    $socket->setSendTimeout(TIMEOUT_MS);
    $socket->setRecvTimeout(TIMEOUT_MS);
    my $transport = $framing eq 'framed' ? Thrift::FramedTransport->new($socket)
                                         : Thrift::BufferedTransport->new($socket);
    $transport->open();
    return $transport;
}

sub fields {
    my $struct = shift;
    return join ' ', map { "$_=$struct->{$_}" } grep { defined $struct->{$_} } sort keys %$struct;
}

# What is a list of bytes, and what of numbers, Perl does not tell apart: the method does.
sub show {
    my ($method, $value) = @_;

    if (ref $value eq 'ARRAY') {
        show($method, $_) for @$value;
    } elsif (ref $value eq 'HASH') {
        print "$_ $value->{$_}\n" for keys %$value;
    } elsif (ref $value) {
        print fields($value), "\n";
    } else {
        print $method =~ /^get_u/ ? unpack('H*', $value) : $value, "\n";
    }
}

sub call {
    my ($client, $method, $agent, $count) = @_;

    if ($method eq 'get_id') {
        show($method, $client->get_id($agent)) for 1 .. $count;
    } else {
        show($method, defined $agent ? $client->$method($agent, $count) : $client->$method());
    }
}

my ($transport, $client);

sub obey {
    my ($command, @words) = @_;

    if ($command eq 'open') {
        $transport->close() if defined $transport;
        $transport = connect_to(@words);
        $client = "${service}Client"->new(Checked->new($transport));
    } else {
        call($client, $command, @words);
    }
}

$| = 1;
while (my $line = <STDIN>) {
    if (eval { obey(split ' ', $line); 1 }) {
        print ".\n";
    } else {
        my $error = $@;
        my $name = (ref $error || 'die') =~ s/.*:://r;
        print "error $name: ", ref $error ? $error->{message} : $error =~ s/\n.*//sr, "\n";
    }
}
