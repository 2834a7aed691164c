//! A plot of lags over time, as SVG.

use change::Timestamp;
use process::clock;
use std::fmt::Write as _;

/// Lags of one way.
pub struct Series {
    /// The way.
    pub name: String,
    /// Instants of arrival with lags in microseconds, oldest first.
    pub points: Vec<(Timestamp, i64)>,
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
/// Points of a line at most: more than there are pixels show nothing more.
const POINTS_MAX: usize = 2000;
const COLOURS: [&str; 6] = ["#1f6fb2", "#c8553d", "#3c8d40", "#8a5ab5", "#b8860b", "#4a4a4a"];

/// The plot of `series` as the text of an SVG file; `None` when there is no point.
pub fn svg(title: &str, series: &[Series]) -> Option<String> {
    let points = || series.iter().flat_map(|series| &series.points);
    let times = || points().map(|(time, _)| time.unix_micros);
    let lags = || points().map(|(_, lag)| *lag);
    let (first, last) = (times().min()?, times().max()?);
    // Zero is always shown: below it clocks disagree.
    let (least, greatest) = (lags().min()?.min(0), lags().max()?.max(1));
    let (wide, high) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let span = (last - first).max(1) as f64;
    let x = |time: i64| LEFT + (time - first) as f64 / span * wide;
    let y = |lag: i64| TOP + high - (lag - least) as f64 / (greatest - least) as f64 * high;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\n",
        escaped(title)
    );
    for part in 0..=4 {
        let lag = least + (greatest - least) / 4 * part;
        let _ = writeln!(
            text,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{2:.1}\" y2=\"{2:.1}\" stroke=\"#ddd\"/><text x=\"{1:.1}\" y=\"{3:.1}\" \
             text-anchor=\"end\">{4}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y(lag),
            y(lag) + 4.0,
            super::verb::lag::duration(lag)
        );
        let time = first + (last - first) / 4 * part;
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"10\">{}</text>",
            x(time).clamp(LEFT + 20.0, WIDTH - RIGHT - 45.0),
            HEIGHT - BOTTOM + 20.0,
            clock::to_second(Timestamp::from_unix_micros(time))
        );
    }
    for (number, series) in series.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        // The greatest lag of each stretch is kept: what is looked for is peaks.
        let stretch = series.points.len().div_ceil(POINTS_MAX).max(1);
        let peaks = series.points.chunks(stretch).filter_map(|points| points.iter().max_by_key(|(_, lag)| *lag));
        let line: Vec<String> = peaks.map(|(time, lag)| format!("{:.1},{:.1}", x(time.unix_micros), y(*lag))).collect();
        let _ = writeln!(
            text,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            line.join(" "),
            LEFT + 240.0 * (number % 3) as f64,
            HEIGHT - 22.0 + 14.0 * (number / 3) as f64,
            escaped(&series.name)
        );
    }
    text.push_str("</svg>\n");
    Some(text)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_a_line_for_each_way_and_hides_no_name_in_its_text() {
        let points = |lags: &[i64]| {
            lags.iter()
                .enumerate()
                .map(|(at, lag)| (Timestamp::from_unix_micros(at as i64 * 1_000_000), *lag))
                .collect()
        };
        let series = [
            Series { name: "E1 ==> R1".to_owned(), points: points(&[0, 5_000_000, 10_000_000]) },
            Series { name: "<E2>".to_owned(), points: points(&[-1_000_000]) },
        ];
        let svg = svg("lag & more", &series).expect("a plot");
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("lag &amp; more") && svg.contains("E1 ==&gt; R1") && svg.contains("&lt;E2&gt;"));
        // The first point of the longer line is at the left edge, its last one at the right edge and at the top.
        assert!(svg.contains("points=\"90.0,"), "{svg}");
        assert!(svg.contains(" 940.0,50.0\""), "{svg}");
    }

    #[test]
    fn without_a_point_there_is_no_plot() {
        assert_eq!(svg("lag", &[]), None);
        assert_eq!(svg("lag", &[Series { name: String::new(), points: Vec::new() }]), None);
    }

    #[test]
    fn a_line_of_very_many_points_stays_small() {
        let points = (0..100_000).map(|at| (Timestamp::from_unix_micros(at), at % 7)).collect();
        let svg = svg("lag", &[Series { name: "E1".to_owned(), points }]).expect("a plot");
        assert!(svg.len() < 60_000, "{}", svg.len());
    }
}
