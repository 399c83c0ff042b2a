"""Floors for ordered cells: a kernel that falls with distance limits what a set gains."""
