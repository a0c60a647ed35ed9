# SPDX-License-Identifier: Apache-2.0
from snowflake import SnowflakeExtended
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TFramedTransport

transport = TFramedTransport(TSocket("127.0.0.1", 7609))
client = SnowflakeExtended.Client(TBinaryProtocol(transport))
transport.open()
print(client.get_id("my-program"))
print(client.get_ids("my-program", 3))
transport.close()
