-- Deletes a record, whatever its state.
--
-- KEYS[1]  the record
-- ARGV[1]  the channel of those who wait
--
-- Replies {now in milliseconds, the record as it was}, or 0 if it is absent.
if not found then
    return 0
end
redis.call('DEL', KEYS[1])
tell(ARGV[1])
return {now, found}
