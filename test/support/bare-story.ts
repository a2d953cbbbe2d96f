import { atRest } from "./final-state.ts";
import type { OperatorProcess } from "./operator.ts";
import type { PageState } from "./scene.ts";
import type { Cast, Story } from "./story.ts";

type StartOptions = NonNullable<Parameters<PageState["start"]>[0]>;

/** A story about modules of its own. Its `look` throws until the end. */
interface BareStory extends Omit<Story, "args" | "cast" | "isBare" | "isOver"> {
  readonly look: NonNullable<Story["look"]>;
  /** How its operators are started. */
  readonly options: (pageState: PageState) => StartOptions;
  /** Throws until everything is there with which `act` begins. */
  readonly begins?: Story["look"];
  /** The first operator stops before `act`, and the story is the start of the next one. */
  readonly isRestart?: boolean;
}

/** Completes a story that has only the modules and hooks that it adds. */
export function bareStory({ options, begins, isRestart, ...story }: BareStory): Story {
  const cast = async (pageState: PageState): Promise<Cast> => {
    const start = (): Promise<OperatorProcess> => pageState.start(options(pageState));
    const { act } = story;
    if (act === undefined) return { play: start, replace: start };
    const operator = await start();
    await atRest(operator);
    await operator.until(async () => void (await begins?.(pageState)), `${story.name} can begin`);
    if (isRestart === true) await operator.stop();
    const play = async (): Promise<OperatorProcess> => {
      await act(pageState);
      return isRestart === true ? start() : operator;
    };
    return { play, replace: start };
  };
  return { ...story, isBare: true, cast, isOver: () => true };
}
