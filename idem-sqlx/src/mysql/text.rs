//! Texts: the dialect's statements as they are sent, prepared or with their values in them.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use sqlx::Arguments as _;
use sqlx::mysql::MySqlArguments;

use crate::dialect::Statements;
use crate::hex::Hex;
use crate::step::{Value, Verb};
use crate::table::TableName;

/// Where the tables are: in a database, or in the one that the session uses.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) database: Option<TableName>,
    pub(super) table: TableName,
}

impl Names {
    /// Puts the names in the place of the default ones.
    pub(super) fn put_into(&self, sql: &str) -> String {
        let qualified = |name: &str| match &self.database {
            Some(database) => format!("`{database}`.`{name}`"),
            None => format!("`{name}`"),
        };
        let table = self.table.as_str();
        sql.replace("`idem_records`", &qualified(table))
            .replace("`idem_migrations`", &qualified("idem_migrations"))
            .replace("'idem_records'", &format!("'{table}'"))
    }
}

/// A statement with `?N` where its values stand. It is prepared with `?` there, and given them in this order.
#[derive(Debug)]
pub(super) struct Text {
    prepared: Arc<str>,
    /// What stands before each value, and which value it is.
    parts: Vec<(String, usize)>,
    end: String,
}

impl Text {
    pub(super) fn new(template: &str, names: &Names) -> Self {
        let sql = names.put_into(template);
        let (mut parts, mut prepared) = (Vec::new(), String::with_capacity(sql.len()));
        let mut rest = sql.as_str();
        while let Some((before, after)) = rest.split_once('?') {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            parts.push((before.to_owned(), after[..digits].parse::<usize>().map_or(0, |n| n - 1)));
            prepared.push_str(before);
            prepared.push('?');
            rest = &after[digits..];
        }
        prepared.push_str(rest);
        Self { end: rest.to_owned(), parts, prepared: prepared.into() }
    }

    /// The statement, to be prepared and given what [`bind`](Self::bind) makes of its values.
    pub(super) fn prepared(&self) -> Arc<str> {
        Arc::clone(&self.prepared)
    }

    /// The values, to be bound.
    pub(super) fn bind(&self, values: &[Value]) -> Result<MySqlArguments, sqlx::Error> {
        let mut arguments = MySqlArguments::default();
        for (_, at) in &self.parts {
            match values.get(*at) {
                Some(Value::Int(int)) => arguments.add(*int),
                Some(Value::Text(text)) => arguments.add(text.as_ref()),
                Some(Value::Word(word)) => arguments.add(*word),
                Some(Value::Bytes(bytes)) => arguments.add(&bytes[..]),
                None => arguments.add(None::<i64>),
            }
            .map_err(sqlx::Error::Encode)?;
        }
        Ok(arguments)
    }

    /// The statement with its values in it. They are numbers or hexadecimal digits, so no text can be taken for SQL,
    /// whatever the session's settings are.
    pub(super) fn with_values(&self, values: &[Value]) -> String {
        self.filled(values.iter().map(Value::len).sum(), |sql, at| match values.get(at) {
            Some(Value::Int(int)) => write!(sql, "{int}"),
            Some(Value::Text(text)) => write!(sql, "_utf8mb4 x'{}'", Hex(text.as_bytes())),
            Some(Value::Word(word)) => write!(sql, "_utf8mb4 x'{}'", Hex(word.as_bytes())),
            Some(Value::Bytes(bytes)) => write!(sql, "x'{}'", Hex(bytes)),
            None => write!(sql, "NULL"),
        })
    }

    /// The statement with a list in the place of its value, which is its only one.
    pub(super) fn with_list(&self, list: &[Vec<u8>]) -> String {
        self.filled(list.iter().map(Vec::len).sum(), |sql, _| {
            list.iter().enumerate().try_for_each(|(at, item)| {
                let comma = if at == 0 { "" } else { ", " };
                write!(sql, "{comma}x'{}'", Hex(item))
            })
        })
    }

    fn filled(&self, bytes: usize, write: impl Fn(&mut String, usize) -> fmt::Result) -> String {
        let mut sql = String::with_capacity(self.prepared.len() + 2 * bytes + 40 * self.parts.len());
        for (before, at) in &self.parts {
            sql.push_str(before);
            let written = write(&mut sql, *at);
            debug_assert!(written.is_ok(), "a string takes everything");
        }
        sql.push_str(&self.end);
        sql
    }
}

/// The statements for one table.
#[derive(Debug)]
pub(super) struct Texts {
    steps: HashMap<Verb, Text>,
    pub(super) is_free: Text,
    pub(super) look_up: Text,
    pub(super) find_gone: Text,
    pub(super) version: Text,
}

impl Texts {
    pub(super) fn new(statements: &Statements, names: &Names) -> Self {
        let text = |template: &str| Text::new(template, names);
        Self {
            steps: Verb::ALL.map(|verb| (verb, text(verb.statement(statements)))).into(),
            is_free: text(statements.is_free),
            look_up: text(statements.look_up),
            find_gone: text(statements.find_gone),
            version: text(statements.version),
        }
    }

    pub(super) fn step(&self, verb: Verb) -> &Text {
        &self.steps[&verb]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(database: Option<&str>) -> Names {
        let name = |name| TableName::new(name).unwrap();
        Names { database: database.map(name), table: name("keys") }
    }

    #[test]
    fn names_are_put_where_tables_stand() {
        let sql = "INSERT INTO `idem_records`; SELECT 'idem_records' FROM `idem_migrations`";
        assert_eq!(names(None).put_into(sql), "INSERT INTO `keys`; SELECT 'keys' FROM `idem_migrations`");
        assert_eq!(
            names(Some("acme")).put_into(sql),
            "INSERT INTO `acme`.`keys`; SELECT 'keys' FROM `acme`.`idem_migrations`"
        );
    }

    #[test]
    fn no_value_can_be_taken_for_sql() {
        let text = Text::new("SELECT ?2, ?1, ?10, ?2", &names(None));
        assert_eq!(&*text.prepared(), "SELECT ?, ?, ?, ?");
        let evil = "'; DROP TABLE users; --\\";
        let sql = text.with_values(&[Value::Int(-5), Value::Text(evil.into())]);
        let hex = "_utf8mb4 x'273b2044524f50205441424c452075736572733b202d2d5c'";
        assert_eq!(sql, format!("SELECT {hex}, -5, NULL, {hex}"));
        assert_eq!(
            Text::new("IN (?1) x", &names(None)).with_list(&[vec![1, 255], vec![0]]),
            "IN (x'01ff', x'00') x"
        );
    }
}
