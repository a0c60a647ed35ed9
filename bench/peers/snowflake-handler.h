/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "SnowflakeExtended.h"

/*
 * The original algorithm behind the generated C++ interface: one lock, a sequence of 12 bits per
 * millisecond, and spinning until the next millisecond when the sequence is used up. Datacenter and
 * worker are 0. Other calls get the generated default answer.
 */
class SnowflakeHandler : public SnowflakeExtendedNull
{
      public:
	int64_t get_id(const std::string &useragent) override;
	void get_ids(std::vector<int64_t> &ids, const std::string &useragent,
		     const int32_t count) override;

      private:
	int64_t next_id(); /* the caller holds the lock */

	std::mutex lock;
	int64_t last_ms = -1;
	int64_t sequence = 0;
};
