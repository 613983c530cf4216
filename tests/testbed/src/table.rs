//! The tables of `kubectl get`, which the API server renders.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::{control_plane::ControlPlane, error::Result};

const ACCEPT: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The columns and rows that `kubectl get` prints for a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The headings of all columns, including those of `-o wide`, in the API server's spelling (`Status`).
    pub columns: Vec<String>,
    /// The priority of each column. Columns with 0 are always printed, the others only with `-o wide`.
    pub priorities: Vec<i64>,
    /// One row for each object.
    pub rows: Vec<Row>,
}

/// One object's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// One for each column, as kubectl prints it.
    pub cells: Vec<String>,
    /// The object's name.
    pub name: String,
    /// The object's namespace; empty if it has none.
    pub namespace: String,
}

impl ControlPlane {
    /// Requests the table of a path such as `/api/v1/namespaces/shop/pods`.
    pub async fn table(&self, path: &str) -> Result<Table> {
        let request = http::Request::get(path)
            .header(http::header::ACCEPT, ACCEPT)
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        let wire: Wire = self.admin()?.request(request).await?;
        Ok(wire.into())
    }
}

impl Table {
    /// A row's cell in the column with this heading, ignoring case.
    pub fn cell<'a>(&self, row: &'a Row, column: &str) -> Option<&'a str> {
        let index = self.columns.iter().position(|name| name.eq_ignore_ascii_case(column))?;
        row.cells.get(index).map(String::as_str)
    }

    /// The row of an object.
    pub fn row(&self, namespace: &str, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.namespace == namespace && row.name == name)
    }

    /// As `kubectl get -o wide` prints it.
    pub fn wide(&self) -> String {
        self.print(i64::MAX)
    }

    fn print(&self, priority: i64) -> String {
        let headings: Vec<String> = self.columns.iter().map(|name| name.to_uppercase()).collect();
        let lines: Vec<Vec<&str>> = std::iter::once(&headings)
            .chain(self.rows.iter().map(|row| &row.cells))
            .map(|cells| {
                cells
                    .iter()
                    .zip(&self.priorities)
                    .filter(|(_, of)| **of <= priority)
                    .map(|(cell, _)| cell.as_str())
                    .collect()
            })
            .collect();
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..headings.len()).map(width).collect();
        let mut text = String::new();
        for line in &lines {
            let mut printed = String::new();
            for (cell, width) in line.iter().zip(&widths) {
                printed.push_str(&format!("{cell:width$}   "));
            }
            text.push_str(printed.trim_end());
            text.push('\n');
        }
        text
    }
}

/// As `kubectl get` prints it.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print(0))
    }
}

/// `meta.k8s.io/v1` Table.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    column_definitions: Vec<WireColumn>,
    #[serde(default)]
    rows: Vec<WireRow>,
}

#[derive(Deserialize)]
struct WireColumn {
    name: String,
    #[serde(default)]
    priority: i64,
}

#[derive(Deserialize)]
struct WireRow {
    #[serde(default)]
    cells: Vec<Value>,
    #[serde(default)]
    object: Value,
}

impl From<Wire> for Table {
    fn from(wire: Wire) -> Self {
        let columns = wire.column_definitions;
        Self {
            priorities: columns.iter().map(|column| column.priority).collect(),
            columns: columns.into_iter().map(|column| column.name).collect(),
            rows: wire.rows.into_iter().map(Row::from).collect(),
        }
    }
}

impl From<WireRow> for Row {
    fn from(row: WireRow) -> Self {
        let meta = |field: &str| row.object["metadata"][field].as_str().unwrap_or_default().to_owned();
        Self { name: meta("name"), namespace: meta("namespace"), cells: row.cells.iter().map(cell).collect() }
    }
}

/// kubectl prints an absent value as `<none>`.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "<none>".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
