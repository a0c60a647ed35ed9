// SPDX-License-Identifier: Apache-2.0
'use strict';
// import finds these names too, since they are written out.
const { Snowflake } = require('./client');
const {
  SnowflakeError, ClockError, UnavailableError, InvalidAgentError, UnreachableError,
  SnowflakeTimeoutError, ClosedError,
} = require('./errors');
const {
  Layout, TWITTER, decode, range, toBase62, fromBase62, toCrockford, fromCrockford,
} = require('./ids');

module.exports = {
  Snowflake, SnowflakeError, ClockError, UnavailableError, InvalidAgentError, UnreachableError,
  SnowflakeTimeoutError, ClosedError, Layout, TWITTER, decode, range, toBase62, fromBase62,
  toCrockford, fromCrockford,
};
