-- Adds a row, unless there is one of its unique name. Replies with the row that counts.
--
-- KEYS[1]  the account's rows by their ids (hash)
-- KEYS[2]  these ids, the oldest first (list)
-- KEYS[3]  these ids by unique names (hash)
-- ARGV[1]  the id
-- ARGV[2]  the unique name
-- ARGV[3]  the row
local there = redis.call('HGET', KEYS[3], ARGV[2])
if there then
    return redis.call('HGET', KEYS[1], there)
end
redis.call('HSET', KEYS[3], ARGV[2], ARGV[1])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('RPUSH', KEYS[2], ARGV[1])
return ARGV[3]
