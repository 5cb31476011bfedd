import "./styles/tokens.css";
import "./styles/base.css";
import { begin } from "./begin";

begin(location.pathname);
void import("./app");
