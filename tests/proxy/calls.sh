#!/bin/sh
# Make calls with curl, and print a line of JSON for each: its status. usage: calls.sh URL COUNT
set -eu
body='{"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}'
made=0
while [ "$made" -lt "$2" ]; do
    status=$(curl -s -o /dev/null -w '%{http_code}' --retry 3 -H 'Content-Type: application/json' \
        -d "$body" "$1/v1/chat/completions")
    echo "{\"status\": $status}"
    made=$((made + 1))
done
