"""Histories of what clients did, and checks of whether a correct store could have answered so."""
