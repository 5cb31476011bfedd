import { useEffect, useRef } from "react";
import uPlot, { type Options } from "uplot";
import "uplot/dist/uPlot.min.css";
import { clockTime, type Zone } from "../format/format";
import { type Palette, usePalette } from "../ui/palette";
import { useZone } from "../ui/Time";
import { columns, type Line, type Sample, written } from "./samples";

const HEIGHT = 160;
const FONT = "12px system-ui, sans-serif";
/** The least time that a chart covers. */
const LEAST_MS = 60_000;

interface PlotProps {
  samples: readonly Sample[];
  lines: readonly Line[];
  intervalMs: number;
  /** The sample under the pointer. */
  point: (sample: Sample | null) => void;
}

/** Draws lines over time on a canvas. Its code is loaded when there is something to draw. */
export default function Plot({ samples, lines, intervalMs, point }: PlotProps) {
  const palette = usePalette();
  const zone = useZone();
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef({ samples, intervalMs, point });
  latest.current = { samples, intervalMs, point };
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const pointed = (at: number | undefined): void =>
      latest.current.point(latest.current.samples.find((sample) => sample.at === at) ?? null);
    const made = new uPlot(
      optionsOf(lines, palette, zone, element.clientWidth, pointed),
      columns(latest.current.samples, lines, latest.current.intervalMs),
      element,
    );
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      plot.current = null;
      made.destroy();
    };
  }, [lines, palette, zone]);
  useEffect(() => plot.current?.setData(columns(samples, lines, intervalMs)), [samples, lines, intervalMs]);
  return <div ref={place} />;
}

function optionsOf(
  lines: readonly Line[],
  palette: Palette,
  zone: Zone,
  width: number,
  pointed: (at: number | undefined) => void,
): Options {
  const axis = {
    stroke: palette.secondary,
    font: FONT,
    grid: { stroke: palette.border, width: 1 },
    ticks: { stroke: palette.border, width: 1, size: 4 },
  };
  const unit = lines[0]?.of ?? "viewers";
  return {
    width,
    height: HEIGHT,
    ms: 1,
    ...(zone === "utc" ? { tzDate: (at: number) => uPlot.tzDate(new Date(at), "Etc/UTC") } : {}),
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false, setScale: false } },
    hooks: { setCursor: [(u) => pointed(u.cursor.idx == null ? undefined : u.data[0][u.cursor.idx])] },
    scales: {
      x: { range: (_, from, to) => [Math.min(from, to - LEAST_MS), to] },
      y: { range: (_, _from, to) => [0, to > 0 ? to * 1.1 : 1] },
    },
    axes: [
      {
        ...axis,
        size: 28,
        space: 64,
        values: (u, at) =>
          at.map((one) =>
            at.length < 2 || (u.scales.x?.max ?? 0) - (u.scales.x?.min ?? 0) < 600_000
              ? clockTime(one, zone)
              : clockTime(one, zone).slice(0, 5),
          ),
      },
      { ...axis, size: 56, space: 32, values: (_, at) => at.map((one) => written(unit, one)) },
    ],
    series: [
      {},
      ...lines.map(({ tone, dashed }) => ({
        stroke: palette[tone],
        width: 1.5,
        ...(dashed ? { dash: [6, 4] } : {}),
        points: { size: 5, stroke: palette[tone], fill: palette.page },
      })),
    ],
  };
}
