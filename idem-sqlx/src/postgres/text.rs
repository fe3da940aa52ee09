//! Texts: the dialect's statements as they are sent, prepared or with their values in them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use sqlx::Arguments as _;
use sqlx::postgres::PgArguments;

use crate::dialect::Statements;
use crate::dialect::postgres::INSERT;
use crate::hex::Hex;
use crate::step::{Value, Verb};
use crate::table::TableName;

/// Where the tables are: in a schema, or in the first of the session's search path that has them.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) schema: Option<TableName>,
    pub(super) table: TableName,
}

impl Names {
    /// Puts the names in the place of the default ones.
    pub(super) fn put_into(&self, sql: &str) -> String {
        let qualified = |name: &str| match &self.schema {
            Some(schema) => format!(r#""{schema}"."{name}""#),
            None => format!(r#""{name}""#),
        };
        let table = self.table.as_str();
        sql.replace(r#""idem_records""#, &qualified(table))
            .replace(r#""idem_migrations""#, &qualified("idem_migrations"))
            .replace("'idem_records'", &format!("'{table}'"))
    }
}

/// A statement with `$N` where its values stand.
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
        let mut parts = Vec::new();
        let mut rest = sql.as_str();
        while let Some((before, after)) = rest.split_once('$') {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            parts.push((before.to_owned(), after[..digits].parse::<usize>().map_or(0, |n| n - 1)));
            rest = &after[digits..];
        }
        Self { end: rest.to_owned(), parts, prepared: sql.into() }
    }

    /// The statement, to be prepared and given its values.
    pub(super) fn prepared(&self) -> Arc<str> {
        Arc::clone(&self.prepared)
    }

    /// The statement with its values in it. They are numbers or hexadecimal digits, so no text can be taken for SQL,
    /// whatever the session's settings are.
    pub(super) fn with_values(&self, values: &[Value]) -> String {
        let bytes: usize = values.iter().map(|value| 2 * value.len() + 40).sum();
        let mut sql = String::with_capacity(self.prepared.len() + bytes);
        for (before, at) in &self.parts {
            sql.push_str(before);
            let written = match values.get(*at) {
                Some(Value::Int(int)) => write!(sql, "({int}::bigint)"),
                Some(Value::Text(text)) => {
                    write!(sql, "convert_from(decode('{}', 'hex'), 'UTF8')", Hex(text.as_bytes()))
                }
                Some(Value::Word(word)) => {
                    write!(sql, "convert_from(decode('{}', 'hex'), 'UTF8')", Hex(word.as_bytes()))
                }
                Some(Value::Bytes(bytes)) => write!(sql, "decode('{}', 'hex')", Hex(bytes)),
                None => write!(sql, "NULL"),
            };
            debug_assert!(written.is_ok(), "a string takes everything");
        }
        sql.push_str(&self.end);
        sql
    }
}

/// The values, to be bound.
pub(super) fn bind(values: &[Value]) -> Result<PgArguments, sqlx::Error> {
    let mut arguments = PgArguments::default();
    for value in values {
        match value {
            Value::Int(int) => arguments.add(*int),
            Value::Text(text) => arguments.add(text.as_ref()),
            Value::Word(word) => arguments.add(*word),
            Value::Bytes(bytes) => arguments.add(&bytes[..]),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}

/// The statements for one table.
#[derive(Debug)]
pub(super) struct Texts {
    steps: HashMap<Verb, Text>,
    pub(super) claim_alone: Text,
    pub(super) claim_joined: Text,
    pub(super) is_free: Text,
    pub(super) insert: Text,
    pub(super) look_up: Text,
    pub(super) find_gone: Text,
    pub(super) version: Text,
}

impl Texts {
    pub(super) fn new(statements: &Statements, names: &Names) -> Self {
        let text = |template: &str| Text::new(template, names);
        Self {
            steps: Verb::ALL.map(|verb| (verb, text(verb.statement(statements)))).into(),
            claim_alone: text(statements.claim_alone),
            claim_joined: text(statements.claim_joined),
            is_free: text(statements.is_free),
            insert: text(INSERT),
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

    fn names(schema: Option<&str>) -> Names {
        let name = |name| TableName::new(name).unwrap();
        Names { schema: schema.map(name), table: name("keys") }
    }

    #[test]
    fn names_are_put_where_tables_stand() {
        let sql = r#"INSERT INTO "idem_records"; SELECT '"idem_records"'::regclass, 'idem_records' FROM "idem_migrations""#;
        assert_eq!(
            names(None).put_into(sql),
            r#"INSERT INTO "keys"; SELECT '"keys"'::regclass, 'keys' FROM "idem_migrations""#
        );
        assert_eq!(
            names(Some("acme")).put_into(sql),
            r#"INSERT INTO "acme"."keys"; SELECT '"acme"."keys"'::regclass, 'keys' FROM "acme"."idem_migrations""#
        );
    }

    #[test]
    fn no_value_can_be_taken_for_sql() {
        let text = Text::new("SELECT $2, $1, $10, $2", &names(None));
        let evil = "'; DROP TABLE users; --\\";
        let sql = text.with_values(&[Value::Int(-5), Value::Text(evil.into())]);
        let hex = "convert_from(decode('273b2044524f50205441424c452075736572733b202d2d5c', 'hex'), 'UTF8')";
        assert_eq!(sql, format!("SELECT {hex}, (-5::bigint), NULL, {hex}"));
    }
}
