/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <iostream>
#include <memory>

#include <netinet/in.h>
#include <sys/socket.h>

#include <thrift/server/TServer.h>

/* Prints the port, in one line on standard output, when the server listens on its Socket. */
template <typename Socket> class PrintPort : public apache::thrift::server::TServerEventHandler
{
      public:
	explicit PrintPort(std::shared_ptr<Socket> socket) : socket(socket)
	{
	}

	void preServe() override
	{
		sockaddr_in address{};
		socklen_t length = sizeof(address);

		getsockname(socket->getSocketFD(), reinterpret_cast<sockaddr *>(&address), &length);
		std::cout << ntohs(address.sin_port) << std::endl;
	}

      private:
	std::shared_ptr<Socket> socket;
};
