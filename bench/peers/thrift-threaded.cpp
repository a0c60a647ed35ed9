/* SPDX-License-Identifier: Apache-2.0 */

/* Thrift's TThreadedServer: a thread per connection, blocking reads. Framed binary. */
#include <cstdlib>

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/server/TThreadedServer.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TServerSocket.h>

#include "print-port.h"
#include "snowflake-handler.h"

using namespace apache::thrift;

int main(int argc, char **argv)
{
	int port = argc > 1 ? std::atoi(argv[1]) : 0;
	auto socket = std::make_shared<transport::TServerSocket>("127.0.0.1", port);
	server::TThreadedServer server(
		std::make_shared<SnowflakeExtendedProcessor>(std::make_shared<SnowflakeHandler>()),
		socket, std::make_shared<transport::TFramedTransportFactory>(),
		std::make_shared<protocol::TBinaryProtocolFactory>());

	/* Avoids a poll() before each read, for the best result of this peer. */
	socket->setInterruptableChildren(false);
	server.setServerEventHandler(std::make_shared<PrintPort<transport::TServerSocket>>(socket));
	server.serve();
	return 0;
}
