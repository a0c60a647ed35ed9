/* SPDX-License-Identifier: Apache-2.0 */

/* Thrift's TNonblockingServer: libevent, one loop, which answers the calls. Framed binary. */
#include <cstdlib>

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/server/TNonblockingServer.h>
#include <thrift/transport/TNonblockingServerSocket.h>

#include "print-port.h"
#include "snowflake-handler.h"

using namespace apache::thrift;

int main(int argc, char **argv)
{
	int port = argc > 1 ? std::atoi(argv[1]) : 0;
	auto socket = std::make_shared<transport::TNonblockingServerSocket>("127.0.0.1", port);
	server::TNonblockingServer server(
		std::make_shared<SnowflakeExtendedProcessor>(std::make_shared<SnowflakeHandler>()),
		std::make_shared<protocol::TBinaryProtocolFactory>(), socket);

	server.setServerEventHandler(
		std::make_shared<PrintPort<transport::TNonblockingServerSocket>>(socket));
	server.serve();
	return 0;
}
