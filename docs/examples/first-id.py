# SPDX-License-Identifier: Apache-2.0
from snowflake_client import Snowflake

client = Snowflake("127.0.0.1:7609", agent="my-program")
print(client.next_id(), client.next_ids(3))
client.close()
