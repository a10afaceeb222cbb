"""Sharing by quality: capacity goes to the growing answer, or the repeated step, that it takes the most error off.

Source: SLAQ (Zhang, Stafman, Or and Freedman, "SLAQ: Quality-Driven Scheduling for Distributed Machine Learning", SoCC
2017). Of a sample the error to come is known in closed form; curves are fitted only to the losses of repeated steps.

::

    sharing.py    the scheduler
"""
