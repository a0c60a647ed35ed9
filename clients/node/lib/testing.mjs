// SPDX-License-Identifier: Apache-2.0
import testing from './testing.js';

export const { FIRST_ID, FakeSnowflake, startServer } = testing;
