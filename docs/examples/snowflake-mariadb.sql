-- SPDX-License-Identifier: Apache-2.0
--
-- Functions for IDs of the layout twitter, for MariaDB and MySQL. To install them, run
-- mariadb DATABASE < snowflake-mariadb.sql
--
--   snowflake_time(id)          the time of the ID, in UTC, to the millisecond
--   snowflake_datacenter(id)    the datacenter ID
--   snowflake_worker(id)        the worker ID
--   snowflake_sequence(id)      the sequence
--   snowflake_first_id(time)    the lowest ID of this millisecond, for a time in UTC
--   snowflake_last_id(time)     the highest ID of this millisecond, for a time in UTC
--
-- WHERE id BETWEEN snowflake_first_id(a) AND snowflake_last_id(b) selects the IDs of the time span
-- from a to b, including both ends. The span can begin before the layout (2010-11-04) or end after
-- it (2080-07-10). A bound that no ID can satisfy is an error (SQLSTATE 22003), and so is a negative
-- ID. For NULL, the result is NULL. The functions ignore the time zone of the session, so call them
-- with UTC_TIMESTAMP(3), not with NOW(3).

DELIMITER //

DROP FUNCTION IF EXISTS snowflake_time //
CREATE FUNCTION snowflake_time(id BIGINT) RETURNS DATETIME(3) DETERMINISTIC NO SQL
BEGIN
  DECLARE problem VARCHAR(128) DEFAULT CONCAT('ID ', id, ' is negative');
  IF id < 0 THEN
    SIGNAL SQLSTATE '22003' SET MESSAGE_TEXT = problem;
  END IF;
  RETURN TIMESTAMP'1970-01-01 00:00:00' + INTERVAL ((id >> 22) + 1288834974657) * 1000 MICROSECOND;
END //

DROP FUNCTION IF EXISTS snowflake_datacenter //
CREATE FUNCTION snowflake_datacenter(id BIGINT) RETURNS INT DETERMINISTIC NO SQL
BEGIN
  DECLARE problem VARCHAR(128) DEFAULT CONCAT('ID ', id, ' is negative');
  IF id < 0 THEN
    SIGNAL SQLSTATE '22003' SET MESSAGE_TEXT = problem;
  END IF;
  RETURN id >> 17 & 31;
END //

DROP FUNCTION IF EXISTS snowflake_worker //
CREATE FUNCTION snowflake_worker(id BIGINT) RETURNS INT DETERMINISTIC NO SQL
BEGIN
  DECLARE problem VARCHAR(128) DEFAULT CONCAT('ID ', id, ' is negative');
  IF id < 0 THEN
    SIGNAL SQLSTATE '22003' SET MESSAGE_TEXT = problem;
  END IF;
  RETURN id >> 12 & 31;
END //

DROP FUNCTION IF EXISTS snowflake_sequence //
CREATE FUNCTION snowflake_sequence(id BIGINT) RETURNS INT DETERMINISTIC NO SQL
BEGIN
  DECLARE problem VARCHAR(128) DEFAULT CONCAT('ID ', id, ' is negative');
  IF id < 0 THEN
    SIGNAL SQLSTATE '22003' SET MESSAGE_TEXT = problem;
  END IF;
  RETURN id & 4095;
END //

DROP FUNCTION IF EXISTS snowflake_first_id //
CREATE FUNCTION snowflake_first_id(at DATETIME(6)) RETURNS BIGINT DETERMINISTIC NO SQL
BEGIN
  DECLARE problem VARCHAR(128) DEFAULT
    CONCAT('no ID is of ', at, ' or later, the last is of 2080-07-10 17:30:30.208');
  IF at >= TIMESTAMP'2080-07-10 17:30:30.209' THEN
    SIGNAL SQLSTATE '22003' SET MESSAGE_TEXT = problem;
  END IF;
  IF at < TIMESTAMP'2010-11-04 01:42:54.657' THEN
    RETURN 0;
  END IF;
  RETURN (TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'2010-11-04 01:42:54.657', at) DIV 1000 << 22);
END //

DROP FUNCTION IF EXISTS snowflake_last_id //
CREATE FUNCTION snowflake_last_id(at DATETIME(6)) RETURNS BIGINT DETERMINISTIC NO SQL
BEGIN
  DECLARE problem VARCHAR(128) DEFAULT
    CONCAT('no ID is of ', at, ' or earlier, the first is of 2010-11-04 01:42:54.657');
  IF at < TIMESTAMP'2010-11-04 01:42:54.657' THEN
    SIGNAL SQLSTATE '22003' SET MESSAGE_TEXT = problem;
  END IF;
  IF at >= TIMESTAMP'2080-07-10 17:30:30.208' THEN
    RETURN 9223372036854775807;
  END IF;
  RETURN (TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'2010-11-04 01:42:54.657', at) DIV 1000 << 22) + 4194303;
END //

DELIMITER ;
