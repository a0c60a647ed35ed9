// SPDX-License-Identifier: Apache-2.0
module snowflake

go 1.19

require github.com/apache/thrift v0.17.0
