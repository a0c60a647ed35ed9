__all__ = ['ttypes', 'constants', 'Snowflake', 'SnowflakeExtended']
