#include "report/gnuplot_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "output/text.h"
#include "report/palette.h"

namespace strata::cli {
namespace {

constexpr int kPngScale = 2;
constexpr int kAxisRoom = 42;  ///< below the plotting area, for ticks and the axis title
constexpr int kTopRoom = 10;
constexpr double kTickCharacter = 7;
constexpr double kHeadLeft = 10;
constexpr int kTitleLine = 18;
constexpr int kNoteLine = 14;
/// A legend uses smaller text than a plot; the mark is to the left of the name.
constexpr double kLegendCharacter = 5.6;
constexpr double kLegendMark = 14;
constexpr double kLegendGap = 12;
/// The characters that fit across a picture, in the font sizes of the title and the note.
constexpr std::size_t kTitleWidth = 50;
constexpr std::size_t kNoteWidth = 66;

constexpr int kShapes[] = {7, 5, 9, 13, 11, 15};
constexpr int kHollowShapes[] = {6, 4, 8, 12, 10, 14};

/// gnuplot treats a tick's text as a format.
std::string tick_quoted(std::string_view text) { return gnuplot_quoted(replaced(text, "%", "%%")); }

std::string colour_of(Medium medium, ColourRole role, int colour = 0) {
  if (medium == Medium::kSvg) return placeholder_colour(role, colour);
  const Palette& palette = kLightPalette;
  switch (role) {
    case ColourRole::kInk:
      return palette.ink;
    case ColourRole::kMuted:
      return palette.muted;
    case ColourRole::kGrid:
      return palette.grid;
    case ColourRole::kCard:
      return palette.card;
    case ColourRole::kSeries:
      return palette.series[colour];
    case ColourRole::kText:
      break;
  }
  return text_colour(palette, colour);
}

class Script {
 public:
  Script(const Plot& plot, const std::vector<SeriesStyle>& styles, Medium medium)
      : plot_(plot), styles_(styles), medium_(medium) {
    if (medium == Medium::kPng) {
      title_ = wrapped(plot.title, kTitleWidth);
      std::string place = plot.place.empty() ? "" : plot.place + ". ";
      note_ = wrapped(place + plot.note, kNoteWidth);
      head_ = static_cast<int>(title_.size()) * kTitleLine +
              static_cast<int>(note_.size()) * kNoteLine + 10;
      if (plot.needs_legend) lay_out_legend();
    }
  }

  std::string text(const std::string& file) {
    start(file);
    axes();
    for (const Text& words : plot_.texts) put(words);
    for (const Leader& leader : plot_.leaders) {
      line(
          "set arrow from graph {:.5f}, graph {:.5f} to graph {:.5f}, graph {:.5f} nohead "
          "linewidth 0.8 linecolor {}",
          leader.x0, leader.y0, leader.x1, leader.y1,
          colour(ColourRole::kSeries, style(leader.series).colour));
    }
    for (const LegendEntry& entry : legend_) put(entry);
    marks();
    return out_;
  }

 private:
  /// A mark and a name in a picture's head, in plot units from the upper left corner.
  struct LegendEntry {
    const Mark* mark;
    double x;
    double y;
  };

  /// Places names side by side, as many per line as fit.
  void lay_out_legend() {
    double x = kHeadLeft;
    int lines = 1;
    for (const Mark& mark : plot_.marks) {
      if (mark.kind != Mark::Kind::kDots) continue;
      double width = kLegendMark + kLegendCharacter * static_cast<double>(display_width(mark.tip)) +
                     kLegendGap;
      if (x > kHeadLeft && x + width > Plot::kWidth) {
        x = kHeadLeft;
        ++lines;
      }
      legend_.push_back({&mark, x, head_ - 2 + (lines - 0.5) * kNoteLine});
      x += width;
    }
    head_ += lines * kNoteLine + 2;
  }

  template <typename... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    out_ += fmt::format(format, std::forward<Arguments>(arguments)...) + "\n";
  }

  std::string colour(ColourRole role, int number = 0) const {
    return fmt::format("rgb '{}'", colour_of(medium_, role, number));
  }

  void start(const std::string& file) {
    int height = plot_.height + head_;
    line("reset");
    if (medium_ == Medium::kSvg) {
      line("set terminal svg noenhanced size {},{} dynamic font 'sans-serif,12' name 'p'",
           Plot::kWidth, height);
    } else {
      line(
          "set terminal pngcairo noenhanced size {},{} font 'Sans,9' fontscale {} linewidth {} "
          "pointscale {} background {}",
          Plot::kWidth * kPngScale, height * kPngScale, kPngScale, kPngScale, kPngScale,
          colour(ColourRole::kCard));
    }
    line("set output {}", gnuplot_quoted(file));
    line("set border 0");
    line("unset key");
    double from_top = head_ + kTopRoom;
    line("set lmargin at screen {:.5f}\nset rmargin at screen {:.5f}",
         double(plot_.left) / Plot::kWidth, 1 - double(plot_.right) / Plot::kWidth);
    line("set bmargin at screen {:.5f}\nset tmargin at screen {:.5f}", double(kAxisRoom) / height,
         1 - from_top / height);
    double y = 8;
    for (const std::string& words : title_) y = put_head(words, y, kTitleLine, height, true);
    for (const std::string& words : note_) y = put_head(words, y, kNoteLine, height, false);
  }

  double put_head(const std::string& words, double y, int line_height, int height, bool is_title) {
    line("set label {} at screen {:.4f}, screen {:.4f} left font 'Sans{}' textcolor {}",
         gnuplot_quoted(words), kHeadLeft / Plot::kWidth, 1 - (y + line_height / 2.0) / height,
         is_title ? ":Bold,10" : ",8", colour(is_title ? ColourRole::kInk : ColourRole::kMuted));
    return y + line_height;
  }

  void axes() {
    line("set tics scale 0 nomirror textcolor {}", colour(ColourRole::kMuted));
    axis('x', plot_.x);
    axis('y', plot_.y);
    line("set grid {} {} back linetype 1 linewidth 1 linecolor {}",
         plot_.has_x_grid ? "xtics" : "noxtics", plot_.has_y_grid ? "ytics" : "noytics",
         colour(ColourRole::kGrid));
  }

  void axis(char name, const Axis& axis) {
    line("set {}range [{:.12g}:{:.12g}]", name, axis.low, axis.high);
    if (axis.is_log) line("set logscale {}", name);
    std::string ticks;
    double room = plot_.inner_width() / kTickCharacter;
    for (const Tick& tick : name == 'x' ? ticks_apart(axis, room) : axis.ticks) {
      append_item(ticks, fmt::format("{} {:.12g}", tick_quoted(tick.text), tick.at));
    }
    if (ticks.empty()) {
      line("unset {}tics", name);
    } else {
      line("set {}tics nomirror ({})", name, ticks);
    }
    if (axis.title.empty()) return;
    // The x axis has its title below the numbers, the y axis left of them.
    if (name == 'x') {
      line("set label {} at graph 0.5, screen {:.5f} center textcolor {}",
           gnuplot_quoted(axis.title), 10.0 / (plot_.height + head_), colour(ColourRole::kMuted));
    } else {
      line("set label {} at screen {:.5f}, graph 0.5 center rotate by 90 textcolor {}",
           gnuplot_quoted(axis.title), 10.0 / Plot::kWidth, colour(ColourRole::kMuted));
    }
  }

  void put(const Text& words) {
    const char* align = words.align == Text::Align::kLeft ? "left" : "right";
    std::string tint = words.is_faint ? colour(ColourRole::kMuted)
                       : words.series == kNoSeries
                           ? colour(ColourRole::kInk)
                           : colour(ColourRole::kText, style(words.series).colour);
    line("set label {} at graph {:.5f}, graph {:.5f} {} front textcolor {}",
         gnuplot_quoted(words.text), words.x, words.y, align, tint);
  }

  void put(const LegendEntry& entry) {
    const SeriesStyle& look = style(entry.mark->series);
    double from_below = 1 - entry.y / (plot_.height + head_);
    line(
        "set label '' at screen {:.5f}, screen {:.5f} point pointtype {} pointsize 0.8 "
        "linecolor {} front",
        (entry.x + 4) / Plot::kWidth, from_below,
        (look.label == 0 ? kShapes : kHollowShapes)[look.shape], mark_colour(*entry.mark));
    line("set label {} at screen {:.5f}, screen {:.5f} left font 'Sans,8' textcolor {}",
         gnuplot_quoted(entry.mark->tip), (entry.x + kLegendMark) / Plot::kWidth, from_below,
         colour(ColourRole::kInk));
  }

  const SeriesStyle& style(int series) const {
    static const SeriesStyle none;
    if (series < 0) return none;
    return styles_[static_cast<std::size_t>(series)];
  }

  std::string mark_colour(const Mark& mark) const {
    if (mark.series == kNoSeries) return colour(ColourRole::kMuted);
    return colour(ColourRole::kSeries, style(mark.series).colour);
  }

  void data(const Mark& mark, std::size_t index) {
    line("$d{} << EOD", index);
    bool is_box = mark.kind == Mark::Kind::kBox;
    for (std::size_t i = 0; i < mark.points.size(); ++i) {
      auto [x, y] = mark.points[i];
      if (std::isnan(x) || std::isnan(y)) {
        out_ += "\n";
      } else if (!is_box) {
        line("{:.10g} {:.10g}", x, y);
      } else if (i % 2 == 1) {
        auto [x0, y0] = mark.points[i - 1];
        line("{0:.10g} {1:.10g} {0:.10g} {2:.10g} {1:.10g} {3:.10g}", x0, y0, x, y);
      }
    }
    line("EOD");
  }

  std::string how(const Mark& mark) const {
    const SeriesStyle& look = style(mark.series);
    int dash = look.label == 0 ? 1 : 2 + (look.label - 1) % 3;
    const int* shapes = look.label == 0 ? kShapes : kHollowShapes;
    std::string tint = mark_colour(mark);
    switch (mark.kind) {
      case Mark::Kind::kLine:
        return fmt::format("with lines linewidth 2 dashtype {} linecolor {}", dash, tint);
      case Mark::Kind::kDashed:
        return fmt::format("with lines linewidth 1 dashtype 2 linecolor {}", tint);
      case Mark::Kind::kWhisk:
        return fmt::format("with lines linewidth 1.2 dashtype 1 linecolor {}",
                           mark.series == kNoSeries ? tint : colour(ColourRole::kInk));
      case Mark::Kind::kDots:
        return fmt::format("with points pointtype {} pointsize 0.9 linewidth 1.2 linecolor {}",
                           shapes[look.shape], tint);
      case Mark::Kind::kSmallDots:
        return fmt::format("with points pointtype 7 pointsize 0.3 linewidth 1 linecolor {}",
                           colour(ColourRole::kInk));
      case Mark::Kind::kBox:
        return fmt::format(
            "using 1:2:3:4:5:6 with boxxyerror fillcolor {} fillstyle solid {} noborder", tint,
            look.label == 0 ? "0.85" : "0.3");
      case Mark::Kind::kArea:
        break;
    }
    return fmt::format(
        "with filledcurves closed fillcolor {} fillstyle solid {} border {} linewidth 1.2", tint,
        look.label == 0 ? "0.45" : "0.15", tint);
  }

  void marks() {
    for (std::size_t i = 0; i < plot_.marks.size(); ++i) data(plot_.marks[i], i);
    // gnuplot draws axes only with data, so plot a point outside of all axes.
    std::string plots = "NaN notitle";
    for (std::size_t i = 0; i < plot_.marks.size(); ++i) {
      const Mark& mark = plot_.marks[i];
      plots += fmt::format(", $d{} {} notitle", i, how(mark));
    }
    line("plot {}", plots);
    line("unset output");
  }

  const Plot& plot_;
  const std::vector<SeriesStyle>& styles_;
  Medium medium_;
  std::vector<std::string> title_;
  std::vector<std::string> note_;
  int head_ = 0;
  std::vector<LegendEntry> legend_;
  std::string out_;
};

}  // namespace

std::string gnuplot_quoted(std::string_view text) {
  // gnuplot 5.4 reads two leading quotes as an empty text, whatever follows.
  const std::size_t quotes = std::min(text.find_first_not_of('\''), text.size());
  std::string quoted = quotes > 0 ? fmt::format("\"{}\".'", text.substr(0, quotes)) : "'";
  text.remove_prefix(quotes);
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    if (c == '\'') quoted += '\'';
    quoted += c;
  }
  return quoted + "'";
}

std::string placeholder_colour(ColourRole role, int colour) {
  return fmt::format("#01{:02x}{:02x}", static_cast<int>(role), colour);
}

std::string gnuplot_script(const Plot& plot, const std::vector<SeriesStyle>& styles, Medium medium,
                           const std::string& file) {
  return Script(plot, styles, medium).text(file);
}

}  // namespace strata::cli
