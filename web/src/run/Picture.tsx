import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import { pictures } from "../messages/pictures";
import { Mosaic } from "../mosaic/Mosaic";
import { useHeader, useOrder, useRunStore } from "../runstate/context";
import { GRAPH_STEPS } from "../status/stepGroup";
import { titleOf } from "../runstate/stepTitle";
import { Button } from "../ui/Button";
import { useKeys } from "../ui/keys";
import { Skeleton } from "../ui/Page";
import { focusOf } from "../dag/focus";
import { fold, groupOf } from "../dag/fold";
import { Graph, type GraphProps } from "../dag/Graph";
import css from "../dag/Picture.module.css";
import { type Shape, shapeOf } from "../topology/shape";
import { useLayout } from "../dag/useLayout";

const route = getRouteApi("/runs/$runId");
const HOPS = { usual: 2, most: 9 };

interface PictureProps {
  chosen: string | null;
  choose: (stepId: string) => void;
}

/** The steps of a run as a mosaic or a graph, by their number. The address names the part of a large graph. */
export function Picture({ chosen, choose }: PictureProps) {
  const store = useRunStore();
  const order = useOrder();
  const { focus, hops = HOPS.usual, whole } = route.useSearch();
  const navigate = route.useNavigate();
  const shape = useMemo(() => shapeOf(order.flatMap((id) => store.step(id) ?? [])), [store, order]);
  const go = (to: { focus?: string; hops?: number; whole?: "yes"; groups?: "collapsed" }): void =>
    void navigate({ search: (old) => ({ ...old, focus: undefined, hops: undefined, whole: undefined, ...to }) });
  const center = shape.index.get(focus ?? "");
  const grouped = useMemo(() => {
    const groups = new Set(shape.ids.map((id) => groupOf(store.step(id) ?? { stepId: id, group: null })));
    return groups.size > 1 && groups.size < shape.ids.length;
  }, [store, shape]);

  const broken = (store.header()?.failedSteps ?? 0) > 0;
  if (center !== undefined) {
    return <FocusGraph shape={shape} center={center} hops={hops} chosen={chosen} choose={choose} go={go} />;
  }
  if (shape.ids.length > GRAPH_STEPS && !whole) {
    return (
      <Mosaic
        shape={shape}
        chosen={chosen}
        choose={choose}
        focusOn={(id) => go({ focus: id })}
        showWhole={() => go({ whole: "yes" })}
        {...(grouped ? { showGroups: () => go({ whole: "yes", groups: "collapsed" }) } : {})}
      />
    );
  }
  return (
    <>
      {whole && <Back label={pictures.graph.toMosaic} onClick={() => go({})} />}
      {/* A large graph that fits is a stripe: with a failure it opens there, where names can be read. */}
      <Groups shape={shape} chosen={chosen} choose={choose} fitted={whole !== undefined && !broken} />
    </>
  );
}

/**
 * A graph with groups that can be collapsed. They stay as they are while the run moves, so that the drawing does not.
 */
function Groups({ shape, ...rest }: PictureProps & { shape: Shape; fitted: boolean }) {
  const store = useRunStore();
  const { groups, open = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const group = useMemo(
    () => shape.ids.map((id) => groupOf(store.step(id) ?? { stepId: id, group: null })),
    [store, shape],
  );
  const several = useMemo(() => new Set(group).size, [group]);
  const folded = useMemo(
    () =>
      groups &&
      fold(
        shape,
        (i) => group[i] ?? "",
        (i) => store.step(shape.ids[i] ?? "")?.status === "FAILED",
        new Set(open.split(",")),
      ),
    [store, shape, group, groups, open],
  );
  const openGroup = (name: string): void =>
    void navigate({ search: (old) => ({ ...old, open: open === "" ? name : `${open},${name}` }), replace: true });
  const turn = (): void =>
    void navigate({
      search: (old) => ({ ...old, groups: groups ? undefined : "collapsed", open: undefined }),
      replace: true,
    });
  return (
    <Drawn
      shape={folded ? folded.shape : shape}
      {...rest}
      {...(folded ? { bars: folded.bars, openGroup } : {})}
      // Bars alone are few: they open as one whole picture.
      {...(folded && open === "" ? { fitted: true } : {})}
    >
      {several > 1 && several < shape.ids.length && (
        <Button kind="quiet" pressed={groups !== undefined} onClick={turn}>
          {pictures.graph.collapse}
        </Button>
      )}
    </Drawn>
  );
}

type DrawnProps = Omit<GraphProps, "layout">;

/** A shape as a graph, once it is laid out. */
function Drawn({ shape, ...rest }: DrawnProps) {
  const sha256 = useHeader()?.plan.sha256 ?? "";
  // Only the whole graph of a plan is large enough to be cached.
  const layout = useLayout(shape, rest.bars ? null : sha256);
  return layout ? (
    <Graph key={shape.ids.length} shape={shape} layout={layout} {...rest} />
  ) : (
    <Skeleton rows={8} label={pictures.graph.layingOut} />
  );
}

interface FocusGraphProps extends PictureProps {
  shape: Shape;
  center: number;
  hops: number;
  go: (to: { focus?: string; hops?: number; whole?: "yes" }) => void;
}

function FocusGraph({ shape, center, hops, chosen, choose, go }: FocusGraphProps) {
  const store = useRunStore();
  const { steps, within } = useMemo(() => focusOf(shape, center, hops), [shape, center, hops]);
  const near = useMemo(
    () => shapeOf(steps.flatMap((i) => store.step(shape.ids[i] ?? "") ?? [])),
    [store, shape, steps],
  );
  const focus = shape.ids[center] ?? "";
  const reach = (to: number): void => {
    if (to >= 1 && to <= HOPS.most) go({ focus, hops: to });
  };
  useKeys({
    "+": { does: pictures.graph.moreHops, run: () => reach(hops + 1) },
    "-": { does: pictures.graph.fewerHops, run: () => reach(hops - 1) },
  });
  return (
    <>
      <Back
        label={shape.ids.length > GRAPH_STEPS ? pictures.graph.toMosaic : pictures.graph.toGraph}
        onClick={() => go({})}
      >
        <strong>{pictures.graph.around(titleOf(store, focus))}</strong>
        <Button kind="quiet" label={pictures.graph.fewerHops} onClick={() => reach(hops - 1)}>
          −
        </Button>
        <span>{pictures.graph.hops(hops)}</span>
        <Button kind="quiet" label={pictures.graph.moreHops} onClick={() => reach(hops + 1)}>
          +
        </Button>
        {within > steps.length && <span>{pictures.graph.cut(steps.length, within)}</span>}
      </Back>
      <Drawn shape={near} chosen={chosen ?? focus} choose={choose} />
    </>
  );
}

function Back({ label, onClick, children }: { label: string; onClick: () => void; children?: React.ReactNode }) {
  return (
    <div className={css.bar}>
      <Button onClick={onClick}>← {label}</Button>
      {children}
    </div>
  );
}
