"""The meaning of an output, whatever made it.

::

    block.py         the normal form of relations
    blocks.py        from relations to blocks
    normal_form.py   operations on blocks that keep them in their normal form
    keyed.py         leaves that have one row at most for given values
    provenance.py    signatures, and canonical names of columns
    containment.py   whether one output holds all that another asks for
    canonical_form.py          a text that is equal for fragments that compute alike
    determinism.py        what may come out differently when it runs again
"""
