//! Measured values, stored as JSON lines for the charts and printed as a table.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{Outcome, churn::Latencies};

/// One measured value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// The mode that measured it, such as `budgets`.
    pub mode: String,
    /// The variable, such as `pods`.
    pub variable: String,
    /// The value of the variable.
    pub at: f64,
    /// The name of the measured quantity.
    pub name: String,
    pub value: f64,
    pub unit: String,
    /// Its budget, if it has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub budget: Option<f64>,
}

/// Collects the figures of one mode.
pub struct Figures {
    mode: &'static str,
    file: File,
    all: Vec<Figure>,
}

/// The file with the figures of a mode.
pub fn path(mode: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/scale").join(format!("{mode}.jsonl"))
}

impl Figures {
    pub fn new(mode: &'static str) -> Outcome<Self> {
        let path = path(mode);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(Self { mode, file: File::create(path)?, all: Vec::new() })
    }

    pub fn add(&mut self, variable: &str, at: usize, name: &str, value: f64, unit: &str) -> Outcome {
        self.add_budgeted(variable, at, name, value, unit, None)
    }

    pub fn add_budgeted(
        &mut self,
        variable: &str,
        at: usize,
        name: &str,
        value: f64,
        unit: &str,
        budget: Option<f64>,
    ) -> Outcome {
        let figure = Figure {
            mode: self.mode.to_owned(),
            variable: variable.to_owned(),
            at: at as f64,
            name: name.to_owned(),
            value,
            unit: unit.to_owned(),
            budget,
        };
        writeln!(self.file, "{}", serde_json::to_string(&figure)?)?;
        println!("  {variable} {at:>7}  {name:<52} {:>12} {unit}{}", number(value), verdict(&figure));
        self.all.push(figure);
        Ok(())
    }

    /// Adds the median, the 99th percentile and the maximum of latencies.
    pub fn add_latencies(
        &mut self,
        variable: &str,
        at: usize,
        name: &str,
        mut latencies: Latencies,
        budgets: [Option<f64>; 2],
    ) -> Outcome {
        latencies.statuses.sort_unstable();
        latencies.pods.sort_unstable();
        let [median, p99] = budgets;
        self.add(variable, at, &format!("{name}: samples"), latencies.statuses.len() as f64, "")?;
        for (label, share, budget) in [("median", 0.5, median), ("p99", 0.99, p99), ("worst", 1.0, None)] {
            let Some(value) = percentile(&latencies.statuses, share) else { continue };
            self.add_budgeted(variable, at, &format!("{name}: {label}"), value.as_secs_f64() * 1e3, "ms", budget)?;
            let Some(value) = percentile(&latencies.pods, share) else { continue };
            let name = format!("{name} of a bare watch of pods: {label}");
            self.add(variable, at, &name, value.as_secs_f64() * 1e3, "ms")?;
        }
        Ok(())
    }

    /// Prints everything as one Markdown table: a row for each figure, a column for each value of the variable.
    pub fn print(&self) {
        let mut columns: Vec<u64> = self.all.iter().map(|figure| figure.at as u64).collect();
        columns.sort_unstable();
        columns.dedup();
        let mut rows: Vec<(&str, &str)> = Vec::new();
        for figure in &self.all {
            let row = (figure.name.as_str(), figure.unit.as_str());
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        let variable = self.all.first().map_or("", |figure| figure.variable.as_str());
        println!("\n| {variable} | {} |", columns.iter().map(u64::to_string).collect::<Vec<_>>().join(" | "));
        println!("|---|{}", "---:|".repeat(columns.len()));
        for (name, unit) in rows {
            let cells = columns.iter().map(|column| {
                self.all
                    .iter()
                    .find(|figure| figure.name == name && figure.at as u64 == *column)
                    .map_or_else(|| "–".to_owned(), |figure| format!("{}{}", number(figure.value), verdict(figure)))
            });
            let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
            println!("| {name}{unit} | {} |", cells.collect::<Vec<_>>().join(" | "));
        }
        println!("\n{}", path(self.mode).display());
    }
}

fn verdict(figure: &Figure) -> String {
    match figure.budget {
        Some(budget) if figure.value <= budget => format!(" (of {})", number(budget)),
        Some(budget) => format!(" (OVER {})", number(budget)),
        None => String::new(),
    }
}

fn number(value: f64) -> String {
    if value == value.trunc() { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// The quantile of sorted values: this share of them is at most as large.
pub fn percentile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    percentile(&values, 0.5).unwrap_or(f64::NAN)
}
