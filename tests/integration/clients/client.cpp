// SPDX-License-Identifier: Apache-2.0

// client HOST PORT framed|unframed PROTOCOL COMMAND..., see ../official.py.
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <string>

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/protocol/TCompactProtocol.h>
#include <thrift/protocol/TProtocolDecorator.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TSSLSocket.h>
#include <thrift/transport/TSocket.h>

#include "Snowflake.h"

using namespace apache::thrift;
using namespace apache::thrift::protocol;
using namespace apache::thrift::transport;

static const int EXCEPTION_STATUS = 3;

// The generated code sends the sequence ID 0 and looks at none: this makes one for each call, and
// holds the reply against it.
class CheckedProtocol : public TProtocolDecorator
{
      public:
	using TProtocolDecorator::TProtocolDecorator;

	uint32_t writeMessageBegin_virt(const std::string &name, const TMessageType type,
					const int32_t) override
	{
		seqid_ = static_cast<int32_t>(random_() & INT32_MAX);
		return TProtocolDecorator::writeMessageBegin_virt(name, type, seqid_);
	}

	uint32_t readMessageBegin_virt(std::string &name, TMessageType &type,
				       int32_t &seqid) override
	{
		uint32_t read = TProtocolDecorator::readMessageBegin_virt(name, type, seqid);

		if (seqid != seqid_) {
			std::cerr << "a reply to call " << seqid << ", not to " << seqid_ << "\n";
			std::exit(EXIT_FAILURE);
		}
		return read;
	}

      private:
	std::random_device random_;
	int32_t seqid_ = 0;
};

static std::shared_ptr<TTransport> new_tls_socket(const std::string &host, int port)
{
	std::stringstream files(std::getenv("SNOWFLAKE_TLS"));
	std::string ca, certificate, key;
	auto factory = std::make_shared<TSSLSocketFactory>();

	std::getline(files, ca, ',');
	std::getline(files, certificate, ',');
	std::getline(files, key, ',');
	factory->loadTrustedCertificates(ca.c_str());
	factory->loadCertificate(certificate.c_str());
	factory->loadPrivateKey(key.c_str());
	factory->authenticate(true);
	return factory->createSocket(host, port);
}

static std::shared_ptr<TTransport> new_socket(const std::string &host, int port)
{
	const std::string prefix = "unix:";
	const std::string tls = "tls:";

	if (host.compare(0, tls.size(), tls) == 0)
		return new_tls_socket(host.substr(tls.size()), port);
	if (host.compare(0, prefix.size(), prefix) != 0)
		return std::make_shared<TSocket>(host, port);

	std::string path = host.substr(prefix.size());

	if (path[0] == '@')
		path[0] = '\0'; // as its TSocket has abstract ones
	return std::make_shared<TSocket>(path);
}

static std::shared_ptr<TProtocol> new_protocol(std::shared_ptr<TTransport> transport,
					       const std::string &name)
{
	if (name == "compact")
		return std::make_shared<TCompactProtocol>(transport);

	bool strict = name == "strict";

	return std::make_shared<TBinaryProtocol>(transport, 0, 0, strict, strict);
}

static void run(SnowflakeClient &client, char **command)
{
	if (std::string(command[0]) == "get_id") {
		for (int left = std::atoi(command[2]); left > 0; left--)
			std::cout << client.get_id(command[1]) << "\n";
		return;
	}
	std::cout << client.get_worker_id() << "\n";
	std::cout << client.get_datacenter_id() << "\n";
	std::cout << client.get_timestamp() << "\n";
}

int main(int, char **argv)
{
	std::shared_ptr<TTransport> socket = new_socket(argv[1], std::atoi(argv[2]));
	std::shared_ptr<TTransport> transport;

	if (std::string(argv[3]) == "framed")
		transport = std::make_shared<TFramedTransport>(socket);
	else
		transport = std::make_shared<TBufferedTransport>(socket);
	try {
		transport->open();
	} catch (const std::exception &error) {
		std::cerr << error.what() << "\n";
		return EXIT_FAILURE;
	}
	try {
		auto protocol = std::make_shared<CheckedProtocol>(new_protocol(transport, argv[4]));
		SnowflakeClient client(protocol);

		run(client, argv + 5);
	} catch (const TException &error) {
		std::cout << "error TException: " << error.what() << std::endl;
		return EXCEPTION_STATUS;
	}
	return EXIT_SUCCESS;
}
