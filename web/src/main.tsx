import "./ui/tokens.css";
import "./ui/base.css";
import { begin } from "./begin";

begin(location.pathname);
void import("./app");
