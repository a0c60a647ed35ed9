# SPDX-License-Identifier: Apache-2.0
# client.rb BINDINGS SERVICE, see ../official.py.
require 'thrift'

bindings, service = ARGV
$LOAD_PATH.unshift(bindings)
require service.gsub(/(?<=[a-z])[A-Z]/) { |letter| "_#{letter}" }.downcase

class WrongReply < Exception; end

# The generated code sends the sequence ID 0 and looks at none: this makes one for each call, and
# holds the reply against it.
module Checked
  def write_message_begin(name, type, _seqid)
    @awaited = [name, rand(1 << 31)]
    super(name, type, @awaited[1])
  end

  def read_message_begin
    name, type, seqid = super
    raise WrongReply, "a reply to #{name} #{seqid}, not to #{@awaited}" if [name, seqid] != @awaited
    [name, type, seqid]
  end
end

def new_protocol(name, transport)
  case name
  when 'strict' then Thrift::BinaryProtocol.new(transport, true, true)
  when 'strict-accelerated' then Thrift::BinaryProtocolAccelerated.new(transport, true, true)
  when 'unversioned' then Thrift::BinaryProtocol.new(transport, false, false)
  when 'compact' then Thrift::CompactProtocol.new(transport)
  end
end

def connect(host, port, framing, protocol)
  socket = if host.start_with?('unix:')
             Thrift::UNIXSocket.new(host.delete_prefix('unix:'), 60)
           else
             Thrift::Socket.new(host, port.to_i, 60)
           end
  transport = (framing == 'framed' ? Thrift::FramedTransport : Thrift::BufferedTransport).new(socket)
  transport.open
  [transport, new_protocol(protocol, transport).extend(Checked)]
end

def show(value)
  case value
  when Array then value.each { |each| show(each) }
  when Hash then value.each { |key, each| puts "#{key} #{each}" }
  when String then puts value.unpack1('H*')
  when Integer then puts value
  else
    fields = value.struct_fields.values.map { |field| [field[:name], value.send(field[:name])] }
    puts fields.reject { |_, each| each.nil? }.map { |name, each| "#{name}=#{each}" }.join(' ')
  end
end

def call(client, method, agent = nil, count = nil)
  if method == 'get_id'
    count.to_i.times { show(client.get_id(agent)) }
  else
    show(agent ? client.send(method, agent, count.to_i) : client.send(method))
  end
end

transport = client = nil
while (line = $stdin.gets)
  command, *words = line.split
  begin
    if command == 'open'
      transport&.close
      transport, protocol = connect(*words)
      client = Object.const_get(service)::Client.new(protocol)
    else
      call(client, command, *words)
    end
    puts '.'
  rescue StandardError => error
    puts "error #{error.class.name.split('::').last}: #{error.message}"
  end
  $stdout.flush
end
