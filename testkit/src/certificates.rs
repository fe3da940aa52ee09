//! Certificates: an authority of one test, and what it says of a server.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::account::Account;
use crate::server::Product;

/// A certificate for the server called `localhost`, the authority that signed it, and another that did not.
#[derive(Debug)]
pub struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// Makes them, for a server of this kind to read. They are good for a day.
    ///
    /// # Panics
    ///
    /// When there is no `openssl`, or it does not do it.
    pub fn for_a<P: Product>() -> Self {
        let made =
            Self { folder: tempfile::Builder::new().prefix("idem-test-").tempdir().expect("a folder") };
        // The installation's own settings would add to what is asked for here.
        fs::write(made.path("settings"), "[req]\ndistinguished_name = name\n[name]\n").expect("a file");
        for authority in ["ca", "another"] {
            made.request(authority, &["basicConstraints=critical,CA:true"], None);
        }
        // A certificate that might be an authority's is refused as a server's.
        made.request(
            "server",
            &["basicConstraints=critical,CA:false", "subjectAltName=DNS:localhost"],
            Some("ca"),
        );
        let account = Account::for_server(P::ACCOUNT);
        account.own(made.folder.path());
        for name in ["server.pem", "server.key"] {
            account.own(&made.folder.path().join(name));
        }
        made
    }

    /// Makes a key and a certificate for it, signed by an authority or itself.
    fn request(&self, name: &str, extensions: &[&str], authority: Option<&str>) {
        let mut openssl = Command::new("openssl");
        openssl.current_dir(self.folder.path()).stdin(Stdio::null());
        openssl.args(["req", "-config", "settings", "-x509", "-days", "1", "-nodes", "-newkey", "ec"]);
        openssl.args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", &format!("/CN=idem {name}")]);
        openssl.args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.pem")]);
        openssl.args(extensions.iter().flat_map(|extension| ["-addext", extension]));
        if let Some(authority) = authority {
            openssl.args(["-CA", &format!("{authority}.pem"), "-CAkey", &format!("{authority}.key")]);
        }
        let done = openssl.output().expect("the program `openssl`: run `scripts/setup`");
        assert!(done.status.success(), "openssl failed: {}", String::from_utf8_lossy(&done.stderr));
        fs::set_permissions(self.path(&format!("{name}.key")), Permissions::from_mode(0o600))
            .expect("a key that nobody else reads");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the server shows.
    pub fn server(&self) -> PathBuf {
        self.path("server.pem")
    }

    /// The key to it.
    pub fn key(&self) -> PathBuf {
        self.path("server.key")
    }

    /// Who signed it.
    pub fn authority(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// Who did not.
    pub fn another_authority(&self) -> PathBuf {
        self.path("another.pem")
    }
}
