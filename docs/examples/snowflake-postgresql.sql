-- SPDX-License-Identifier: Apache-2.0
--
-- Functions for IDs of the layout twitter, for PostgreSQL 14 or later. To install them, run
-- psql -f snowflake-postgresql.sql
--
--   snowflake_time(id)          the time of the ID, to the millisecond
--   snowflake_datacenter(id)    the datacenter ID
--   snowflake_worker(id)        the worker ID
--   snowflake_sequence(id)      the sequence
--   snowflake_first_id(time)    the lowest ID of this millisecond
--   snowflake_last_id(time)     the highest ID of this millisecond
--
-- WHERE id BETWEEN snowflake_first_id(a) AND snowflake_last_id(b) selects the IDs of the time span
-- from a to b, including both ends. The span can begin before the layout (2010-11-04) or end after
-- it (2080-07-10). A bound that no ID can satisfy is an error (numeric_value_out_of_range, 22003),
-- and so is a negative ID. For NULL, the result is NULL.
--
-- The functions depend only on their arguments, so indexes and generated columns can use them. None
-- of them calls another one, so a dump can be restored with any search_path.

CREATE OR REPLACE FUNCTION snowflake_time(id bigint) RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  IF id < 0 THEN
    RAISE numeric_value_out_of_range USING MESSAGE = format('ID %s is negative', id);
  END IF;
  RETURN to_timestamp(((id >> 22) + 1288834974657) / 1000.0);
END
$$;

CREATE OR REPLACE FUNCTION snowflake_datacenter(id bigint) RETURNS integer
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  IF id < 0 THEN
    RAISE numeric_value_out_of_range USING MESSAGE = format('ID %s is negative', id);
  END IF;
  RETURN id >> 17 & 31;
END
$$;

CREATE OR REPLACE FUNCTION snowflake_worker(id bigint) RETURNS integer
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  IF id < 0 THEN
    RAISE numeric_value_out_of_range USING MESSAGE = format('ID %s is negative', id);
  END IF;
  RETURN id >> 12 & 31;
END
$$;

CREATE OR REPLACE FUNCTION snowflake_sequence(id bigint) RETURNS integer
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  IF id < 0 THEN
    RAISE numeric_value_out_of_range USING MESSAGE = format('ID %s is negative', id);
  END IF;
  RETURN id & 4095;
END
$$;

CREATE OR REPLACE FUNCTION snowflake_first_id(at timestamptz) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  IF at >= timestamptz '2080-07-10 17:30:30.209+00' THEN
    RAISE numeric_value_out_of_range USING
      MESSAGE = format('no ID is of %s or later, the last is of 2080-07-10 17:30:30.208+00', at);
  END IF;
  IF at < timestamptz '2010-11-04 01:42:54.657+00' THEN
    RETURN 0;
  END IF;
  RETURN (floor(extract(epoch FROM at) * 1000)::bigint - 1288834974657) << 22;
END
$$;

CREATE OR REPLACE FUNCTION snowflake_last_id(at timestamptz) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  IF at < timestamptz '2010-11-04 01:42:54.657+00' THEN
    RAISE numeric_value_out_of_range USING
      MESSAGE = format('no ID is of %s or earlier, the first is of 2010-11-04 01:42:54.657+00', at);
  END IF;
  IF at >= timestamptz '2080-07-10 17:30:30.208+00' THEN
    RETURN 9223372036854775807;
  END IF;
  RETURN ((floor(extract(epoch FROM at) * 1000)::bigint - 1288834974657) << 22) + 4194303;
END
$$;
