#!/bin/sh
# usage: check-file.sh FILE
# Succeeds when FILE exists; else says how to make it.
if [ -f "$1" ]; then
    echo "$1 is there"
    exit 0
fi
echo "$1 is missing. Type this, then retry the step:  touch '$1'" >&2
exit 1
