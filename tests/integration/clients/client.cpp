// SPDX-License-Identifier: Apache-2.0

// client, see ../official.py. Uses the original contract if there is no later one to include.
#include <cstdlib>
#include <cxxabi.h>
#include <exception>
#include <iomanip>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/protocol/TCompactProtocol.h>
#include <thrift/protocol/TProtocolDecorator.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TSSLSocket.h>
#include <thrift/transport/TSocket.h>

#if __has_include("SnowflakeLater.h")
#include "SnowflakeLater.h"
#define LATER true
using Client = SnowflakeLaterClient;
#else
#include "Snowflake.h"
#define LATER false
using Client = SnowflakeClient;
#endif

using namespace apache::thrift;
using namespace apache::thrift::protocol;
using namespace apache::thrift::transport;

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

static std::shared_ptr<TTransport> new_transport(const std::string &host, int port,
						 const std::string &framing)
{
	if (framing == "framed")
		return std::make_shared<TFramedTransport>(new_socket(host, port));
	return std::make_shared<TBufferedTransport>(new_socket(host, port));
}

static std::shared_ptr<TProtocol> new_protocol(std::shared_ptr<TTransport> transport,
					       const std::string &name)
{
	if (name == "compact")
		return std::make_shared<TCompactProtocol>(transport);

	bool strict = name == "strict";

	return std::make_shared<TBinaryProtocol>(transport, 0, 0, strict, strict);
}

static void show(int64_t number)
{
	std::cout << number << "\n";
}

static void call_of_2010(Client &client, const std::string &method, const std::string &agent,
			 int count)
{
	if (method == "get_worker_id")
		show(client.get_worker_id());
	else if (method == "get_datacenter_id")
		show(client.get_datacenter_id());
	else if (method == "get_timestamp")
		show(client.get_timestamp());
	else if (method == "get_id")
		for (; count > 0; count--)
			show(client.get_id(agent));
	else
		throw std::invalid_argument(method);
}

#if LATER
static void show(const std::string &bytes)
{
	for (unsigned char byte : bytes)
		std::cout << std::hex << std::setw(2) << std::setfill('0') << int(byte);
	std::cout << std::dec << "\n";
}

static void show(const IdRun &run)
{
	std::cout << "first=" << run.first << " count=" << run.count << "\n";
}

static void show(const Worker &worker)
{
	std::cout << "datacenter_id=" << worker.datacenter_id << " worker_id=" << worker.worker_id
		  << " address=" << worker.address << " nonce=" << worker.nonce
		  << " claimed_at_ms=" << worker.claimed_at_ms
		  << " reserved_until_ms=" << worker.reserved_until_ms << " state=" << worker.state
		  << " as_of_ms=" << worker.as_of_ms << " kind=" << worker.kind
		  << " registry_id=" << worker.registry_id << "\n";
}

static void show(const std::map<std::string, int64_t> &numbers)
{
	for (const auto &each : numbers)
		std::cout << each.first << " " << each.second << "\n";
}

template <typename Element> static void show(const std::vector<Element> &list)
{
	for (const auto &each : list)
		show(each);
}

// Calls what fills its first argument.
template <typename Result, typename... Parameters, typename... Arguments>
static void call(Client &client, void (SnowflakeExtendedClient::*method)(Result &, Parameters...),
		 Arguments... arguments)
{
	Result result;

	(client.*method)(result, arguments...);
	show(result);
}

static void call(Client &client, const std::string &method, const std::string &agent, int count)
{
	if (method == "get_ids")
		call(client, &SnowflakeExtendedClient::get_ids, agent, count);
	else if (method == "get_id_runs")
		call(client, &SnowflakeExtendedClient::get_id_runs, agent, count);
	else if (method == "get_ulids")
		call(client, &SnowflakeExtendedClient::get_ulids, agent, count);
	else if (method == "get_uuids")
		call(client, &SnowflakeExtendedClient::get_uuids, agent, count);
	else if (method == "get_worker")
		call(client, &SnowflakeExtendedClient::get_worker);
	else if (method == "get_workers")
		call(client, &SnowflakeExtendedClient::get_workers);
	else if (method == "get_counters")
		call(client, &SnowflakeExtendedClient::get_counters);
	else if (method == "get_later")
		show(client.get_later());
	else
		call_of_2010(client, method, agent, count);
}
#else
static void call(Client &client, const std::string &method, const std::string &agent, int count)
{
	call_of_2010(client, method, agent, count);
}
#endif

static std::string class_of(const std::exception &error)
{
	std::string name = abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, nullptr);

	return name.substr(name.rfind(':') + 1); // npos + 1 is 0
}

static std::shared_ptr<Client> connect(std::istringstream &words)
{
	std::string host, framing, protocol;
	int port;

	words >> host >> port >> framing >> protocol;

	auto transport = new_transport(host, port, framing);

	transport->open();
	return std::make_shared<Client>(
		std::make_shared<CheckedProtocol>(new_protocol(transport, protocol)));
}

int main()
{
	std::shared_ptr<Client> client;

	for (std::string line; std::getline(std::cin, line);) {
		std::istringstream words(line);
		std::string command, agent;
		int count = 0;

		words >> command;
		try {
			if (command == "open") {
				client = connect(words);
			} else {
				words >> agent >> count;
				call(*client, command, agent, count);
			}
			std::cout << "." << std::endl;
		} catch (const TException &error) {
			std::cout << "error " << class_of(error) << ": " << error.what()
				  << std::endl;
		}
	}
	return EXIT_SUCCESS;
}
