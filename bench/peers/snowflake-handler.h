/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "SnowflakeExtended.h"

/*
 * The algorithm of 2010 behind the generated C++ interface: one lock, a sequence of 12 bits within
 * the millisecond, and a spin to the next millisecond when that has run out. Datacenter and worker
 * are 0. What is not here answers with the generated default.
 */
class SnowflakeHandler : public SnowflakeExtendedNull
{
      public:
	int64_t get_id(const std::string &useragent) override;
	void get_ids(std::vector<int64_t> &ids, const std::string &useragent,
		     const int32_t count) override;

      private:
	int64_t next_id(); /* call with the lock held */

	std::mutex lock;
	int64_t last_ms = -1;
	int64_t sequence = 0;
};
