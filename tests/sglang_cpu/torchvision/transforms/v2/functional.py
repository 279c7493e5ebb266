from ...absent import absent as __getattr__
