//! Draws charts from the figures of the other modes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use plotters::prelude::*;

use crate::{
    Outcome,
    figures::{Figure, path},
    trouble,
};

/// A chart with one line for each named figure.
struct Chart {
    file: &'static str,
    mode: &'static str,
    title: &'static str,
    x: &'static str,
    y: &'static str,
    lines: &'static [(&'static str, &'static str)],
}

const CHARTS: &[Chart] = &[
    Chart {
        file: "memory",
        mode: "pods",
        title: "Peak resident memory",
        x: "pods",
        y: "MiB",
        lines: &[("streamed: peak resident memory", "streamed"), ("paged: peak resident memory", "paged")],
    },
    Chart {
        file: "first-status",
        mode: "pods",
        title: "From exec to the first full status",
        x: "pods",
        y: "seconds",
        lines: &[
            ("raw LIST: median", "raw LIST"),
            ("streamed: exec to first full status, median", "streamed"),
            ("paged: exec to first full status, median", "paged"),
        ],
    },
    Chart {
        file: "objects",
        mode: "objects",
        title: "Orchestr objects over 10,000 pods",
        x: "objects",
        y: "MiB; milliseconds",
        lines: &[
            ("peak resident memory", "peak resident memory, MiB"),
            ("latency: median", "latency, median, ms"),
            ("processor time for a change that concerns one object", "processor time of a change, ms"),
        ],
    },
    Chart {
        file: "failures",
        mode: "failures",
        title: "Pods that fail at the same time, of 10,000",
        x: "failing pods",
        y: "seconds; MiB",
        lines: &[
            ("writing them took", "writing them, s"),
            ("first write to exact count", "to the exact count, s"),
            ("first write to every log that is to be had", "to the last log, s"),
            ("peak resident memory", "peak resident memory, MiB"),
        ],
    },
];

/// Draws every chart that has figures.
pub fn draw() -> Outcome {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/performance");
    fs::create_dir_all(&folder)?;
    for picture in CHARTS {
        let Ok(text) = fs::read_to_string(path(picture.mode)) else {
            println!("no figures of `{}` yet", picture.mode);
            continue;
        };
        let figures: Vec<Figure> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let file = folder.join(picture.file).with_extension("svg");
        picture.draw(&figures, &file)?;
        println!("{}", file.display());
    }
    Ok(())
}

impl Chart {
    fn draw(&self, figures: &[Figure], file: &PathBuf) -> Outcome {
        let line = |name: &str| -> Vec<(f64, f64)> {
            let mut points: Vec<_> =
                figures.iter().filter(|own| own.name == name).map(|own| (own.at, own.value.max(1e-3))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        };
        let all: Vec<_> = self.lines.iter().flat_map(|(name, _)| line(name)).collect();
        let range = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)))
        };
        if all.is_empty() {
            return Err(trouble(format!("no figures for {}", self.title)));
        }
        let (left, right) = range(&mut all.iter().map(|point| point.0));
        let (low, high) = range(&mut all.iter().map(|point| point.1));
        let area = SVGBackend::new(file, (720, 440)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d((left..right.max(left + 1.0)).log_scale(), (low * 0.8..high * 1.25).log_scale())?;
        chart.configure_mesh().x_desc(self.x).y_desc(self.y).light_line_style(WHITE).draw()?;
        for (index, (name, label)) in self.lines.iter().enumerate() {
            let color = Palette99::pick(index).to_rgba();
            let points = line(name);
            chart
                .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?
                .label(*label)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
            chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, color.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::MiddleLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()?;
        Ok(())
    }
}
