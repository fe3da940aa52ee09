-- Deletes a record, whatever its state.
--
-- KEYS[1]  the record
-- ARGV[1]  when it was created, as it stands in the record: one that was claimed since it was forgotten is another
-- ARGV[2]  the channel of those who wait
--
-- Replies {now in milliseconds, the record as it was}, or 0 if there is no such record any more.
if not found or string.sub(found, 62, 69) ~= ARGV[1] then
    return 0
end
redis.call('DEL', KEYS[1])
tell(ARGV[2])
return {now, found}
