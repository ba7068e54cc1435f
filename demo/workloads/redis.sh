#!/bin/bash
# redis-server under redis-benchmark on loopback: SET, GET, LPUSH, LPOP, HSET, SADD of random keys.
# Takes a free port, ends the server in any case, fails if a command of the benchmark failed.
set -euo pipefail

folder=$(mktemp -d)
server=
trap '[[ -n $server ]] && kill "$server" 2>/dev/null && wait "$server" || true; rm -rf "$folder"' EXIT

port=$(perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport')
redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no --dir "$folder" \
  --daemonize no --loglevel warning --hz 10 &
server=$!
for _ in $(seq 200); do
  redis-cli -p "$port" ping >/dev/null 2>&1 && break
  sleep 0.02
done
redis-benchmark -p "$port" -q -n 80000 -r 100000 -d 200 -c 20 -P 8 -t set,get,lpush,lpop,hset,sadd
[[ $(redis-cli -p "$port" dbsize) -gt 10000 ]]
redis-cli -p "$port" shutdown nosave 2>/dev/null || true
wait "$server" || true
server=
