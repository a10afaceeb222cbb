"""The users of a server, from their file and from an issuer of tokens.

::

    oidc.py        users with tokens of an issuer by OpenID Connect
    reloading.py   the file of users, read again
    users_file.py  the file of users
"""
