//! Accounts: who runs a server, since servers refuse to be run by root.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::Command;

/// An account that is not root: this process's own, or one to change to.
#[derive(Debug, Clone, Copy)]
pub struct Account {
    /// User and group, if this process has to change to them.
    other: Option<(u32, u32)>,
}

impl Account {
    /// This process's account, or the first of these and `nobody` if it is root's.
    pub(crate) fn for_server(preferred: &str) -> Self {
        let me = fs::metadata("/proc/self").expect("a process file system").uid();
        if me != 0 {
            return Self { other: None };
        }
        let accounts = fs::read_to_string("/etc/passwd").expect("a list of accounts");
        let found = [preferred, "nobody"].iter().find_map(|name| {
            accounts.lines().find_map(|line| {
                let mut fields = line.split(':');
                let (user, _, uid, gid) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
                (user == *name).then(|| Some((uid.parse().ok()?, gid.parse().ok()?)))?
            })
        });
        Self { other: Some(found.expect("an account `nobody`")) }
    }

    /// A program that runs under this account.
    pub(crate) fn command(self, program: &Path) -> Command {
        let Some((user, group)) = self.other else { return Command::new(program) };
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={user}"), &format!("--regid={group}"), "--clear-groups", "--"]);
        command.arg(program);
        command
    }

    /// Gives the account a folder of its own.
    pub(crate) fn own(self, folder: &Path) {
        if let Some((user, group)) = self.other {
            chown(folder, Some(user), Some(group)).expect("a folder for the server");
        }
    }
}
