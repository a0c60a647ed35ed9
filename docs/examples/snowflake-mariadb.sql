-- SPDX-License-Identifier: Apache-2.0
--
-- IDs of the layout twitter in MariaDB and MySQL: mariadb DATABASE < snowflake-mariadb.sql
--
--   snowflake_time(id)          when it was issued, in UTC, to the millisecond
--   snowflake_datacenter(id), snowflake_worker(id), snowflake_sequence(id)
--   snowflake_first_id(time)    the lowest ID of that millisecond; the time is in UTC, too
--   snowflake_last_id(time)     the highest ID of it
--
-- WHERE id BETWEEN snowflake_first_id(a) AND snowflake_last_id(b) is the span from a to b, with both
-- its ends. It may begin before the layout (2010-11-04) or end after it (2080-07-10); a bound that
-- no ID can meet is an error, as is a negative ID (SQLSTATE 22003). NULL is of NULL. The time zone
-- of the session changes nothing, so give them UTC_TIMESTAMP(3), and not NOW(3).

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
