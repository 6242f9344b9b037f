#!/bin/sh
# Notes when it begins, then writes a file out as fast as it is read: pour.sh DIRECTORY FILE
date +%s.%N > "$1/began.$$"
cat "$2"
