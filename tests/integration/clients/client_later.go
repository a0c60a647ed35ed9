// SPDX-License-Identifier: Apache-2.0
package main

import (
	"github.com/apache/thrift/lib/go/thrift"

	"later"
)

func newClient(transport thrift.TTransport, protocols thrift.TProtocolFactory) interface{} {
	return later.NewSnowflakeLaterClientFactory(transport, protocols)
}
