// SPDX-License-Identifier: Apache-2.0
module example.com/snowflake

go 1.19
