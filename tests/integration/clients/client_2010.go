// SPDX-License-Identifier: Apache-2.0
package main

import (
	"github.com/apache/thrift/lib/go/thrift"

	"snowflake_2010"
)

func newClient(transport thrift.TTransport, protocols thrift.TProtocolFactory) interface{} {
	return snowflake_2010.NewSnowflakeClientFactory(transport, protocols)
}
