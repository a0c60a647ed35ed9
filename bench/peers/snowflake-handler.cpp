/* SPDX-License-Identifier: Apache-2.0 */
#include "snowflake-handler.h"

#include <cctype>
#include <chrono>

static const int64_t EPOCH_MS = 1288834974657;
static const int SEQUENCE_BITS = 12;
static const int TIME_SHIFT = 22;

static int64_t now_ms()
{
	using namespace std::chrono;
	return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

static void check_useragent(const std::string &agent)
{
	bool valid = !agent.empty() && isalpha(static_cast<unsigned char>(agent[0]));

	for (unsigned char c : agent)
		valid = valid && (isalnum(c) || c == '-');
	if (!valid)
		throw InvalidUserAgentError();
}

int64_t SnowflakeHandler::next_id()
{
	int64_t now = now_ms();

	if (now < last_ms)
		throw InvalidSystemClock();
	sequence = now == last_ms ? (sequence + 1) & ((1 << SEQUENCE_BITS) - 1) : 0;
	if (now == last_ms && sequence == 0) {
		while (now <= last_ms)
			now = now_ms();
	}
	last_ms = now;
	return (now - EPOCH_MS) << TIME_SHIFT | sequence;
}

int64_t SnowflakeHandler::get_id(const std::string &useragent)
{
	check_useragent(useragent);
	std::lock_guard<std::mutex> guard(lock);
	return next_id();
}

void SnowflakeHandler::get_ids(std::vector<int64_t> &ids, const std::string &useragent,
			       const int32_t count)
{
	check_useragent(useragent);
	std::lock_guard<std::mutex> guard(lock);
	for (int32_t i = 0; i < count; i++)
		ids.push_back(next_id());
}
