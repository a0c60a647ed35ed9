/* SPDX-License-Identifier: Apache-2.0 */

/* A contract that is newer than the server: the one of this tree, and a call that no server has. */

include "snowflake.thrift"

namespace java com.twitter.service.snowflake.gen
namespace c_glib Sf
namespace perl Later // without one, its Types.pm is the included one's too

service SnowflakeLater extends snowflake.SnowflakeExtended {
  i64 get_later()
}
