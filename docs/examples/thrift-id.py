# SPDX-License-Identifier: Apache-2.0
import logging
import sys

from snowflake import SnowflakeExtended
from thrift.Thrift import TException
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TFramedTransport

logging.getLogger("thrift").setLevel(logging.CRITICAL)  # it also raises what it logs
socket = TSocket("127.0.0.1", 7609)
socket.setTimeout(2000)  # milliseconds, for connecting and for each reply
transport = TFramedTransport(socket)
client = SnowflakeExtended.Client(TBinaryProtocol(transport))
try:
    transport.open()
    print(client.get_id("my-program"))
    print(client.get_ids("my-program", 3))
except (TException, OSError) as error:
    sys.exit(f"no IDs: {getattr(error, 'inner', None) or error}")
finally:
    transport.close()
