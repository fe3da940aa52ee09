#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| idem_fuzz::retry_after(data));
