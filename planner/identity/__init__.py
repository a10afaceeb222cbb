"""What an output means, whatever made it.

::

    block.py         the normal form of relations
    blocks.py        from relations to blocks
    provenance.py    signatures, and canonical names of columns
    containment.py   whether one output holds all that another asks for
    form.py          a text that is equal for fragments that compute alike
    island.py        what may come out differently when it runs again
    digits.py        sums whose last digits decide something
"""
