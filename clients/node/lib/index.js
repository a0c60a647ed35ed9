// SPDX-License-Identifier: Apache-2.0
'use strict';
const { Snowflake } = require('./client');
const errors = require('./errors');
const ids = require('./ids');

module.exports = {
  Snowflake,
  ...errors,
  Layout: ids.Layout,
  TWITTER: ids.TWITTER,
  decode: ids.decode,
  range: ids.range,
  toBase62: ids.toBase62,
  fromBase62: ids.fromBase62,
  toCrockford: ids.toCrockford,
  fromCrockford: ids.fromCrockford,
};
