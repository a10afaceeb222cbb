"""Values as text, and read again.

::

    codec.py      dataclasses as JSON values
    described.py  values by the text of their repr
"""
