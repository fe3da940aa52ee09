//! TLS: which cryptography rustls uses.

use rustls::crypto::{CryptoProvider, ring};

/// Chooses one for the process, unless it has: where several are compiled in, rustls would panic for want of a choice.
pub(crate) fn choose() {
    if CryptoProvider::get_default().is_none() {
        // Somebody may have been faster; then there is one.
        let _ = ring::default_provider().install_default();
    }
}
